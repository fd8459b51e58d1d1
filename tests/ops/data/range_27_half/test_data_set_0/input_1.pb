
Jh