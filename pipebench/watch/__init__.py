"""Where an unmodified training script spends its time, inside its workers too."""
