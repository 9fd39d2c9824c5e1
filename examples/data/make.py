"""Writes the .npy files beside it from statsmodels' copy of NOAA's El Nino data; README.md here says what they hold.

    pip install numpy statsmodels && python3 make.py
"""
import pathlib

import numpy as np
from statsmodels.datasets import elnino

folder = pathlib.Path(__file__).parent
temperature = elnino.load_pandas().data.iloc[:, 1:].to_numpy(np.float64)  # [year,month]
level = temperature.mean(axis=1)
season = temperature.mean(axis=0) / temperature.mean()
exponent = 17.67 * temperature / (temperature + 243.5)

for name, values in {
    "temperature": temperature,
    "vapour_exponent": exponent,
    "level": level,
    "season": season,
    "misfit": np.outer(level, season) - temperature,
}.items():
    np.save(folder / f"{name}.npy", values.astype("<f4"))
    print(f"{name}.npy", values.shape)
