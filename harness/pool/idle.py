"""Memory that a process takes before it has made anything: every limit has to leave room for it."""

IDLE_CPU_BYTES = 256 << 20
"""A process that has imported torch and Horovod and done nothing (CPU build: 224 MiB measured)."""
IDLE_CUDA_BYTES = 600 << 20
"""What a CUDA context takes of a GPU's memory before the first tensor (assumed: it depends on driver and kernels)."""
