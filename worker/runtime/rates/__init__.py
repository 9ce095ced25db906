"""Learning rates tried by the program itself: range tests and short trainings."""
