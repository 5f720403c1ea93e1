"""What the figures of a report and of a paper show: kind and mass of every interval included."""

# In place of the figure, for those who do not see it.
ALTERNATIVES = {
    "decision": "Distribution of the best choice over posterior draws, the trade between both losses, and "
    "what other choices cost. The table of choices holds the same numbers.",
    "surface": "Final losses over two choices, with all else as recommended.",
    "forecast": "Predicted loss curves with bands. The table of the forecast holds their ends.",
    "fitted": "Measured losses over the fitted curves and their bands.",
    "ridges": "Pairs of coefficients that the data determine together and hardly one by one.",
    "sampling": "Energies of the sampler and ranks of the chains: chains that agree stay inside the bands.",
    "calibration": "Share of held-out points inside the bands, beside what the bands promise.",
}
CAPTIONS = {
    "decision": "Above: where the best configuration of each posterior draw lies. Below: expected losses "
    "that cannot both be lowered, with central 90 % credible intervals, and the cost of leaving the "
    "recommendation, with central 50 and 90 % credible intervals.",
    "surface": "Final losses over two choices, with all else as recommended: the posterior mean (lines), "
    "and half the width of the central 90 % credible interval (shades).",
    "forecast": "Predicted losses of the runs, with central 50 and 90 % predictive intervals of a new run. "
    "The step axis is drawn in square roots.",
    "fitted": "Measured losses (dots), the law's curve with its central 90 % credible interval, and the "
    "central 90 % predictive interval of a new run like it. The step axis is drawn in square roots.",
    "ridges": "Coefficients that the data determine together and hardly one by one: draws of the posterior "
    "over draws of the prior.",
    "sampling": "Above: density of the energy and of its change from draw to draw; where the two are alike "
    "the sampler reaches the tails. Below: ranks of each chain for the parameters with the largest R-hat, "
    "with a simultaneous 95 % band.",
    "calibration": "Above: share of points inside the 50, 80 and 90 % bands, with 90 % intervals over "
    "runs. Below: histograms of the probability integral transform, flat where a forecast is calibrated.",
}
