"""PyTensor without any compilation: for a function that a test calls a few times."""

from pytensor.compile.mode import Mode

INTERPRETED = Mode(linker="py", optimizer=None)
