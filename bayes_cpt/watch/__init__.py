"""A running job against its forecast: is it on track, and where will it end."""

from bayes_cpt.watch.watcher import Status, Watcher

__all__ = ["Status", "Watcher"]
