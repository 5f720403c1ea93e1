import importlib.util
import os

# Before NumPy loads: on many small matrices the threads of its linear algebra only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings

# The independent sampler is an extra; the modules that code the model for it import it at once.
needing_numpyro = ["independent_model.py", "../research/benchmarks/natural_numpyro.py"]
collect_ignore = [] if importlib.util.find_spec("numpyro") else needing_numpyro

# The first example pays for imports and compilation, which is no fault of the code under test.
settings.register_profile("bayes_cpt", deadline=None)
settings.load_profile("bayes_cpt")
