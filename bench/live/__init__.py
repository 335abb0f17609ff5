"""The contest of routers over HTTP: what is asked, the engines that answer, and what the clients saw."""
