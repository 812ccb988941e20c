"""Chat models an agent can speak to."""
