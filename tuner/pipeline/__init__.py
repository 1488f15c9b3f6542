"""What a stream's own monitoring says flows in; samples, moments and arrival traces flow out."""
