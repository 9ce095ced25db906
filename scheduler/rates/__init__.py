"""What range tests and short trainings say of the learning rate."""
