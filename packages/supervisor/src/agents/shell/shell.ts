import { StringDecoder } from "node:string_decoder"
import type { PromptResult, PromptStart } from "@berth/protocol/bridge"
import { MAX_PROMPT_MS } from "@berth/protocol/session-limits"
import { type CommandEnd, runCommand } from "../../processes/run.ts"
import type { Agent, Say } from "../agent.ts"
import type { AgentParts } from "../parts.ts"
import { commandLine } from "./command-line.ts"

/** Time from a stop to SIGKILL. With the kill itself it is within the second that a stop may take. */
const STOP_GRACE_MS = 500

/** Limit of one event's text. JSON may write each character as six bytes, and an event may have 256 KiB. */
const MAX_DELTA_CHARS = 32 * 1024

/**
 * Runs each prompt as a shell command, without any model. The prompt's attachments are the command's arguments.
 * Processes that the command leaves in the background continue.
 */
export const shellAgent = (parts: AgentParts): Agent => {
  let cwd: string | undefined
  return {
    name: "shell",
    startsEarly: true,
    files: [],
    start: async () => ({ did: "it has no process of its own" }),
    attach: async (directory) => {
      cwd = directory
      return { did: `commands run in ${directory}` }
    },
    lastOutput: () => "",
    answer: () => false,
    trouble: () => (cwd === undefined ? "it has no directory yet" : undefined),
    prompt: async (start, say, signal) => {
      const end = await run(start, { ...parts, cwd: cwd ?? "/" }, say, signal)
      if (end.background) parts.processes.keep(`prompt ${start.prompt}`, end.background)
      return resultOf(end)
    },
  }
}

const run = async (
  { prompt, text, attachments = [] }: PromptStart,
  { clock, pipes, user, environment, keys, cwd }: AgentParts & { cwd: string },
  say: Say,
  signal: AbortSignal,
): Promise<CommandEnd> => {
  const message = `${prompt}-output`
  const decoder = new StringDecoder("utf8")
  /**
   * Passes on output, one event after another. The command waits for it, so at most a pipe's content is not yet passed
   * on.
   */
  const pass = async (text: string): Promise<void> => {
    for (let from = 0; from < text.length; from += MAX_DELTA_CHARS)
      await say({
        type: "message.delta",
        prompt,
        message,
        text: text.slice(from, from + MAX_DELTA_CHARS),
      })
  }
  const env = { ...environment, ...keys.environment }
  try {
    return await runCommand(
      {
        title: "the prompt",
        command: commandLine(text, attachments),
        env,
        cwd,
        user,
        origin: "prompt",
        prompt,
        deadlineMs: MAX_PROMPT_MS,
        stopGraceMs: STOP_GRACE_MS,
        keepBackground: true,
      },
      { clock, pipes, signal, onOutput: (chunk) => pass(decoder.write(chunk)) },
    )
  } finally {
    await pass(decoder.end())
    await say({ type: "message.completed", prompt, message })
  }
}

const resultOf = (end: CommandEnd): PromptResult => {
  if (end.status === 0) return { state: "succeeded" }
  const how = end.status === null ? `was ended by ${end.signal}` : `ended with status ${end.status}`
  return { state: "failed", reason: `the command ${how}` }
}
