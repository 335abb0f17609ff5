"""Looks at the engines behind endpoints: their metrics pages and their lists of models, now and then.

Is given the pools of a snapshot, and sets the reading of each endpoint's load, for the scheduler. Nothing
waits for it: where a reading is missing or old, the scheduler goes by its own account, and the pages say so.
"""

from headgate.gateway.scraping.scraper import Scraper

__all__ = ["Scraper"]
