import type { DefineCommand } from "./command.ts"

interface CommandEntry {
  readonly name: string
  /** The text in the list of commands. */
  readonly summary: string
  readonly load: () => Promise<{ define: DefineCommand }>
}

/** Every command. Everything but its summary is loaded only when it is named. */
export const COMMANDS: readonly CommandEntry[] = [
  {
    name: "serve",
    summary: "run a server on this machine until it is told to stop",
    load: () => import("./commands/serve.ts"),
  },
  {
    name: "up",
    summary: "make a sandbox, for a repo or for nothing in particular",
    load: () => import("./commands/up.ts"),
  },
  {
    name: "run",
    summary: "run a prompt, show what the agent does, and end with the diff",
    load: () => import("./commands/run.ts"),
  },
  {
    name: "sessions",
    summary: "list and remove sessions",
    load: () => import("./commands/sessions.ts"),
  },
  {
    name: "log",
    summary: "show what was said and done in a session",
    load: () => import("./commands/log.ts"),
  },
  {
    name: "answer",
    summary: "answer what an agent asks",
    load: () => import("./commands/answer.ts"),
  },
  {
    name: "ps",
    summary: "list the sandboxes",
    load: () => import("./commands/ps.ts"),
  },
  {
    name: "exec",
    summary: "run a command in a sandbox",
    load: () => import("./commands/exec.ts"),
  },
  {
    name: "commands",
    summary: "list commands in the background, show what they write, and end them",
    load: () => import("./commands/commands.ts"),
  },
  {
    name: "shell",
    summary: "open a terminal in a sandbox",
    load: () => import("./commands/shell.ts"),
  },
  {
    name: "port-forward",
    summary: "bring ports of a sandbox to this machine",
    load: () => import("./commands/port-forward.ts"),
  },
  {
    name: "cp",
    summary: "copy files and folders into a sandbox or out of it",
    load: () => import("./commands/cp.ts"),
  },
  {
    name: "fetch",
    summary: "bring a sandbox's commits into the repo here",
    load: () => import("./commands/fetch.ts"),
  },
  {
    name: "apply",
    summary: "apply what has changed in a sandbox's repo to the repo here",
    load: () => import("./commands/apply.ts"),
  },
  {
    name: "why",
    summary: "show why a sandbox is there, or is not any more",
    load: () => import("./commands/why.ts"),
  },
  {
    name: "hold",
    summary: "keep a sandbox until it is released",
    load: () => import("./commands/hold.ts"),
  },
  {
    name: "fork",
    summary: "make another workspace on a copy of a sandbox's files",
    load: () => import("./commands/fork.ts"),
  },
  {
    name: "stop",
    summary: "stop sandboxes, and keep their files",
    load: () => import("./commands/stop.ts"),
  },
  {
    name: "rm",
    summary: "remove sandboxes, with their files",
    load: () => import("./commands/rm.ts"),
  },
  {
    name: "make-room",
    summary: "let a halted sandbox go on for a while, to delete files in it",
    load: () => import("./commands/make-room.ts"),
  },
  {
    name: "recover",
    summary: "give the files of a quarantined sandbox back to its workspace",
    load: () => import("./commands/recover.ts"),
  },
  {
    name: "reconcile",
    summary: "compare what is wanted with what runs, and do what there is to do",
    load: () => import("./commands/reconcile.ts"),
  },
  {
    name: "status",
    summary: "show the server that runs on this machine",
    load: () => import("./commands/status.ts"),
  },
  {
    name: "doctor",
    summary: "show what this machine offers, and how to get what it lacks",
    load: () => import("./commands/doctor.ts"),
  },
  {
    name: "config",
    summary: "show the effective configuration and where each value came from",
    load: () => import("./commands/config.ts"),
  },
  {
    name: "toolbox",
    summary: "list, build and verify what Berth brings into every sandbox",
    load: () => import("./commands/toolbox.ts"),
  },
  {
    name: "layers",
    summary: "list the files of workspaces, and repair what a crash left of them",
    load: () => import("./commands/layers.ts"),
  },
  {
    name: "boot",
    summary: "show how a sandbox booted, step by step",
    load: () => import("./commands/boot.ts"),
  },
]
