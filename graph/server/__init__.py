"""What a LangGraph server has of ours beside the graphs: where threads are kept, who may ask, and artifacts."""
