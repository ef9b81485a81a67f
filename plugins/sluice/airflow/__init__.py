"""What runs inside Airflow. The jobs of Spark can be imported from here on; an installed package ships them apart."""

import sys

from sluice.paths import ROOT

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
