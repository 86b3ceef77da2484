from fkpinn.cli import start

start()
