"""Failures of a live engine: by rate, by schedule, or as set through /admin/config.

Takes the model's fault schedule and settings that change at run time; decides for each request whether it is
rejected, delayed or gets a wrong response, and drives the engines through crashes, slowness and stalls.
`failures` decides, `mishaps` produces the wrong responses, `settings` has the settings.
"""
