module ctxgen-sample

go 1.21
