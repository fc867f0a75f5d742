"""DPMC Lab: what differential privacy costs when a matrix of ratings is completed."""

import streamlit as st
from starlette.middleware import Middleware

from pages.ui import server, shell

if __name__ == "__main__":  # Streamlit runs this file for every visitor
    shell.run()
else:  # and imports it once, to serve it
    AROUND = [Middleware(server.FirstPage), Middleware(server.ChartsAhead)]
    app = st.App(__file__, lifespan=server.ready, middleware=AROUND)
