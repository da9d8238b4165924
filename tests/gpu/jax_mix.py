# SPDX-License-Identifier: MIT
"""JAX: a jitted training loop and host round trips. Prints checksums only; highest precision, no autotuning."""
import hashlib
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0 --xla_gpu_deterministic_ops=true")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402

jax.config.update("jax_default_matmul_precision", "highest")


def digest(name, array):
    data = numpy.ascontiguousarray(numpy.asarray(array))
    print(name, data.shape, hashlib.sha256(data.tobytes()).hexdigest()[:16], flush=True)


@jax.jit
def step(weights, x):
    def loss(w):
        return jnp.mean(jnp.tanh(x @ w) ** 2)

    return weights - 0.1 * jax.grad(loss)(weights)


def main():
    print(jax.devices()[0].platform, flush=True)
    weights = jax.random.normal(jax.random.PRNGKey(1), (512, 512))
    host = numpy.linspace(0, 1, 256 * 512, dtype=numpy.float32).reshape(256, 512)
    for _ in range(100):
        weights = step(weights, host)
    digest("training", weights)
    total = 0.0
    for i in range(100):
        total += float(weights[i, i])
    print("scalars", repr(total), flush=True)
    digest("integers", jnp.arange(1 << 20, dtype=jnp.int32) * 7 % 1013)


if __name__ == "__main__":
    main()
