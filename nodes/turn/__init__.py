"""An agent's turn: prompts, the model's answers, and the tools that it may call."""
