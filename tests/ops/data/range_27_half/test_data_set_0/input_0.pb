
Jøg