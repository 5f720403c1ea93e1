"""`python -m bayes_cpt`, the same as `bayes-cpt`."""

from bayes_cpt.cli import main

if __name__ == "__main__":
    main()
