"""Answer from one event log alone: what would other numbers of executors have meant for a streaming query?"""
