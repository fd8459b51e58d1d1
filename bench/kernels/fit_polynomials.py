#!/usr/bin/env python3
"""Fits the polynomials of lib/kernels/activate.cpp: prints coefficients, lowest power first, and the largest error.

Each is a least-squares fit over Chebyshev nodes whose weights are raised where the error is large until it is nearly
level (Lawson's algorithm), in double precision. The errors of the compiled kernels are what tests/unit/kernels measures.
"""

import math

import numpy as np


def nodes(low, high, count=4000):
    return (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(count) + 0.5) / count)


def fit(name, x, values, degree, weight):
    """Coefficients of the polynomial p that makes the largest |p(x) - values| * weight small."""
    powers = np.vander(x, degree + 1, increasing=True)
    share = np.full(len(x), 1 / len(x))
    best = (math.inf, None)
    for _ in range(300):
        row = np.sqrt(share) * weight
        coefficients = np.linalg.lstsq(powers * row[:, None], values * row, rcond=None)[0]
        errors = np.abs(powers @ coefficients - values) * weight
        if errors.max() < best[0]:
            best = (errors.max(), coefficients)
        share *= errors / errors.max() + 1e-3
        share /= share.sum()
    print(f"{name}, largest error {best[0]:.2e}:")
    print("  " + ", ".join(f"{np.float32(c):.9g}F" for c in best[1]))


def main():
    erf, erfc = np.vectorize(math.erf), np.vectorize(math.erfc)
    half_log2 = math.log(2) / 2
    x = nodes(-half_log2, half_log2)
    fit("exp(x) = 1 + x + x^2 p(x), |x| <= ln(2) / 2, relative", x, (np.exp(x) - 1 - x) / x**2, 4, x**2 / np.exp(x))
    x = nodes(math.sqrt(0.5) - 1, math.sqrt(2) - 1)
    fit("log(1 + x) = x - x^2 / 2 + x^3 p(x), relative", x, (np.log1p(x) - x + x**2 / 2) / x**3, 8, np.abs(x**3 / np.log1p(x)))
    x = nodes(-0.5, 0.5)
    fit("2^x = 1 + x p(x), |x| <= 1/2, relative", x, np.expm1(x * math.log(2)) / x, 5, np.abs(x) / np.exp2(x))
    # gelu(x) = max(x, 0) - t Q(t), t = |x|, Q(t) = erfc(t / sqrt(2)) / 2 = 2^(t p(t) - 1): what counts is t Q(t).
    x = nodes(1e-3, 5.75)
    tail = erfc(x / math.sqrt(2)) / 2
    fit("2^(t p(t)) = erfc(t / sqrt(2)), t <= 5.75, error of t erfc / 2", x, np.log2(2 * tail) / x, 7, x * x * tail * math.log(2))
    x = nodes(1e-6, 0.93**2)
    root = np.sqrt(x)
    fit("erf(x) = x p(x^2), x <= 0.93, relative", x, erf(root) / root, 6, root / erf(root))
    x = nodes(1e-6, 0.625**2)
    root = np.sqrt(x)
    fit("tanh(x) = x + x^3 p(x^2), x <= 0.625, relative", x, (np.tanh(root) - root) / root**3, 4, root**3 / np.tanh(root))


if __name__ == "__main__":
    main()
