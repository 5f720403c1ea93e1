"""Learn priors of `cpt-replay` without one family of CPT studies, for `testbench.delphi --priors`.

From the repository's root::

    PYTHONPATH=research python -m testbench.cpt_families NAME=STUDY ... --without delphi -o PRIORS

Studies in folders of `delphi` are one family. All are fitted under the priors of `vague-cpt.toml`.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from bayes_cpt.history.evidence import fit_studies, labels_of
from bayes_cpt.history.learnt import learnt_model, learnt_text
from bayes_cpt.history.population import learn_population
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.folder import read_study
from bayes_cpt.validate.tasks import Pool, Records
from testbench.families import NOT_LEARNT

VAGUE = Path(__file__).with_name("vague-cpt.toml")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="+")
    parser.add_argument("--without", required=True)
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args()
    paths = dict(own.split("=") for own in options.studies)
    studies = {name: replace(read_study(path), name=name) for name, path in paths.items()}
    vague = read_spec(VAGUE)
    digests = {name: study.digest() for name, study in studies.items()}
    settings = {"seed": 0, "model": vague.model_dump(mode="json"), "studies": digests}
    place = Records.open(options.out / "fits", settings, ()).folder
    fits = fit_studies(list(studies.values()), vague, 0, pool=Pool(1), folder=place)
    kept = [
        own
        for own, path in zip(fits, paths.values(), strict=True)
        if options.without not in Path(path).parts and not own.problems
    ]
    found = learn_population(kept, tuple(labels_of(vague)), 1.0, 0)
    told = [own for own in labels_of(vague) if own[0] not in NOT_LEARNT and found.telling[own]]
    learnt = learnt_model(vague, found, f"without-{options.without}", 0, told)
    text = learnt_text(learnt, str(VAGUE), digests, 0)
    (options.out / f"without-{options.without}.toml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
