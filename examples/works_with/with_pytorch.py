"""Use a compiled circuit as a layer of a PyTorch model, and train it with torch.optim."""

import pennylane as qml
import torch

import bellhop


@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(angles):
    qml.RY(angles[0], wires=0)
    qml.CNOT(wires=[0, 1])
    qml.RY(angles[1], wires=1)
    return qml.expval(qml.Z(1))


layer = bellhop.to_torch(bellhop.qjit(bellhop.vmap(circuit)))

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
network = network.double()
x = torch.linspace(-1, 1, 16, dtype=torch.float64)[:, None]
y = torch.sin(3 * x[:, 0])
optimizer = torch.optim.Adam(network.parameters(), lr=0.05)

for _ in range(150):
    optimizer.zero_grad()
    loss = torch.mean((layer(network(x)) - y) ** 2)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
