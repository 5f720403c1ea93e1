"""What a fitted law says beside its curves: landmarks of continual pre-training, with their posteriors."""

from bayes_cpt.landmarks.decomposition import decompose

__all__ = ["decompose"]
