"""From a task's file to facts about it."""
