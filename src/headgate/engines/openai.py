"""Any other server with OpenAI's API: its metrics page is unknown, and only its list of models is read."""

from headgate.engines.engine import Engine

ENGINE = Engine(name="OpenAI")
