import type { Agent } from "./agent.ts"

/** Wraps an agent so that prompts for the shell run as commands in its sandbox. */
export const withShell = (agent: Agent, shell: Agent): Agent => ({
  ...agent,
  attach: async (directory, signal) => {
    await shell.attach(directory, signal)
    return await agent.attach(directory, signal)
  },
  prompt: (start, say, signal) =>
    (start.agent === "shell" ? shell : agent).prompt(start, say, signal),
})
