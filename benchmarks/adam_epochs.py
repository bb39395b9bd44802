"""Time an epoch of Adam as the baselines run it, against loops over batches in Python, on the data of 3a.

`compiled` is `train_adam`: one program for the epoch. `jitted_own` calls its compiled step once for each batch.
`jitted` and `uncompiled` are what one would write first: the same networks and loss with JAX's cosine and sine, a
dictionary of parameters, the gradient and optax's update, as one compiled function or operation by operation. The
uncompiled loop is timed on part of an epoch. Ways take turns, and the shortest time of each counts. Results go to
benchmarks/results/adam_epochs.json.

    python benchmarks/adam_epochs.py [--turns 5] [--uncompiled-steps 30]
"""

import argparse
import time

import jax
import numpy as np
import optax
from common import write_results

from itofit.experiments import EXPERIMENTS
from itofit.experiments.adam import Adam, start_networks
from itofit.experiments.compiled import compile_programs, loss_function, training_step
from itofit.experiments.network_units import NetworkUnits
from itofit.experiments.networks import outputs, row_losses


def plain_step(networks, m, structure):
    """A step of Adam on a dictionary of arrays, nothing compiled."""
    optimiser = optax.adam(1e-3)

    def features(omega, u):
        angle = u @ omega.T
        return jax.numpy.cos(angle), jax.numpy.sin(angle)

    def loss(networks, rows):
        g, T = (
            outputs(networks[name], rows[:, :m], xp=jax.numpy, features=features) for name in ("drift", "diffusion")
        )
        return row_losses(g, T, rows, m, structure, xp=jax.numpy).mean()

    def step(carry, batch):
        networks, state = carry
        _, gradient = jax.value_and_grad(loss)(networks, batch)
        updates, state = optimiser.update(gradient, state)
        return optax.apply_updates(networks, updates), state

    networks = jax.tree.map(jax.numpy.asarray, networks)
    return step, (networks, optimiser.init(networks))


def looped(step, carry, batches):
    """A function that makes one step for each batch."""

    def run():
        nonlocal carry
        for batch in batches:
            carry = step(carry, batch)
        jax.block_until_ready(carry)

    return run


def ways(batch_size, uncompiled_steps):
    """For each way, a function and the number of steps that it makes."""
    experiment = EXPERIMENTS["3a"]
    train, validation = experiment.sample(rng=0).split(0.1, rng=0)
    settings = Adam(batch_size=batch_size, n_features=experiment.settings.n_features)
    units = NetworkUnits.of(train, experiment.structure)
    rng = np.random.default_rng(0)
    networks = start_networks(rng, train, units, settings, experiment.structure, None)
    programs = compile_programs(
        jax,
        optax,
        networks,
        units,
        experiment.structure,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        train=train,
        validation=validation,
    )
    carry = (programs.parameters + 0, programs.state)

    def epoch():
        nonlocal carry
        carry = jax.block_until_ready(programs.epoch(*carry, programs.rows, rng.permutation(len(train))))

    order = rng.permutation(len(train))
    batches = [programs.rows[order[i : i + batch_size]] for i in range(0, len(train), batch_size)]
    loss_sum, parameters, _ = loss_function(jax, networks, train.n_inputs, experiment.structure)
    own, state = training_step(jax, optax, loss_sum, parameters, settings.learning_rate)
    step, plain = plain_step(networks, train.n_inputs, experiment.structure)
    return {
        "compiled": (epoch, len(batches)),
        "jitted_own": (looped(jax.jit(own), (parameters, state), batches), len(batches)),
        "jitted": (looped(jax.jit(step), plain, batches), len(batches)),
        "uncompiled": (looped(step, plain, batches[:uncompiled_steps]), uncompiled_steps),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--uncompiled-steps", type=int, default=30)
    arguments = parser.parse_args()
    rows = []
    for batch_size in (8, 32):
        with jax.enable_x64():
            seconds = {}
            timed = ways(batch_size, arguments.uncompiled_steps)
            for turn in range(arguments.turns + 1):  # the first turn compiles
                for name, (run, n_steps) in timed.items():
                    began = time.perf_counter()
                    run()
                    if turn:
                        seconds.setdefault(name, []).append((time.perf_counter() - began) / n_steps)
        micro = {name: 1e6 * min(values) for name, values in seconds.items()}
        ratios = {f"ratio_to_{name}": micro[name] / micro["compiled"] for name in micro if name != "compiled"}
        rows.append({"batch_size": batch_size, **{f"{name}_microseconds": t for name, t in micro.items()}, **ratios})
        print(f"batch {batch_size}, microseconds for a step:", {name: round(t, 1) for name, t in micro.items()})
        print("  ratios:", {name: round(ratio, 1) for name, ratio in ratios.items()}, flush=True)
    write_results("adam_epochs", rows, jax=jax.__version__, optax=optax.__version__)


if __name__ == "__main__":
    main()
