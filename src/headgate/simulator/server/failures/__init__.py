"""What goes wrong with a live engine: by rate, by schedule, or as /admin/config says at this moment.

Given the model's schedule of faults and settings that change while it runs, it decides for each request
whether it is refused, delayed, or answered wrongly, and drives the engines through crashes, slowness and
stalls.
`failures` decides, `mishaps` are the wrong answers, `settings` what can be set.
"""
