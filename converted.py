
def added(n):
    s = 0
    for i in range(n):
        s = s + 0.5
    return s

def in_a_lambda(x):
    return (lambda y: 1.0 if y > 0 else 2.0)(x)

def otherwise(x):
    while x < 5:
        x += 1
    else:
        x = 100
    return x

def listed(n):
    return [i for i in range(n)]
