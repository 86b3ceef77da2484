from fkpinn.cli._main import main as main
from fkpinn.cli._main import start as start
