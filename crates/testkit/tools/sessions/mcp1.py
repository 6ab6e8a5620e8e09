"""One session with the first generation of the Python client.

Takes a plan as JSON in its only argument and prints what happened as JSON.
"""

import asyncio
import contextlib
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


@contextlib.asynccontextmanager
async def connect(plan):
    if plan["transport"] == "stdio":
        program, *arguments = plan["command"]
        parameters = StdioServerParameters(command=program, args=arguments)
        async with stdio_client(parameters) as (read, write):
            yield read, write
    elif plan["transport"] == "sse":
        async with sse_client(plan["url"]) as (read, write):
            yield read, write
    else:
        async with streamablehttp_client(plan["url"]) as (read, write, _):
            yield read, write


async def main(plan):
    async with connect(plan) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        tools = await session.list_tools()
        replies = []
        for name, arguments in plan["calls"]:
            result = await session.call_tool(name, arguments)
            text = "\n".join(part.text for part in result.content if part.type == "text")
            replies.append({"error": bool(result.isError), "text": text})
        await session.send_ping()
        return {
            "version": str(hello.protocolVersion),
            "server": hello.serverInfo.name,
            "instructions": hello.instructions,
            "tools": [tool.name for tool in tools.tools],
            "replies": replies,
        }


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
