"""Any other server with OpenAI's API: of its page nothing is known, and only its list of models is read."""

from headgate.engines.engine import Engine

OPENAI = Engine(name="OpenAI", default_port=8000)
