from fkpinn.cli._main import main as main
