"""Law terms and laws: written once, evaluated on arrays and on symbols alike."""

from pathlib import Path

from bayes_cpt.files import drop_stale_code

# Before any of it is loaded.
drop_stale_code(Path(__file__).parents[1])
