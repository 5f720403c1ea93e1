"""Pre-training runs at three peaks, from which options of the law are found again."""

from bayes_cpt.laws import Reference
from bayes_cpt.study.schedules import cosine, warmup_stable_decay

RUNS = {
    "high": warmup_stable_decay(3000, 2e-3, decay_steps=800, warmup_steps=200),
    "middle": cosine(3000, 1e-3, 1e-4, warmup_steps=200),
    "low": warmup_stable_decay(2000, 5e-4, decay_steps=500, warmup_steps=100),
}
STEPS = tuple(range(250, 2001, 125))
RATE = 1e-3
AT = Reference(RATE, 2.0, 1.0, 2000.0)
