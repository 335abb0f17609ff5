"""The contest of autoscalers: traffic, calibration, published formulas, and a clairvoyant bound."""
