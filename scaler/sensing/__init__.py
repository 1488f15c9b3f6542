"""What a driver's streams tell of themselves flows in; readings of operators over slots flow out."""
