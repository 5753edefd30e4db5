"""Operations as gates, and the wires and devices that they are for."""
