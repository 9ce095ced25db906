"""What a run leaves: results, charts, the rows they show."""
