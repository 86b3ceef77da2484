import sys

from fkpinn.cli import main

sys.exit(main())
