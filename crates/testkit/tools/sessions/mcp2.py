"""One session with the second generation of the Python client.

Takes a plan as JSON in its only argument and prints what happened as JSON.
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client


def target(plan):
    if plan["transport"] == "stdio":
        program, *arguments = plan["command"]
        return StdioServerParameters(command=program, args=arguments)
    if plan["transport"] == "sse":
        return sse_client(plan["url"])
    return plan["url"]


async def main(plan):
    async with Client(target(plan), mode=plan["mode"]) as client:
        tools = await client.list_tools()
        replies = []
        for name, arguments in plan["calls"]:
            result = await client.call_tool(name, arguments)
            text = "\n".join(part.text for part in result.content if part.type == "text")
            replies.append({"error": bool(result.is_error), "text": text})
        return {
            "version": str(client.protocol_version),
            "server": client.server_info.name,
            "instructions": client.instructions,
            "tools": [tool.name for tool in tools.tools],
            "replies": replies,
        }


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
