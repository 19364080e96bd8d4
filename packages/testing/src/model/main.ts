/**
 * `node model-server.mjs SCRIPT.json DIRECTORY` plays a script, on the port of `$PORT` or on any. It writes the port to
 * the file `port` in the directory, and the requests to `asked.jsonl`, a line each.
 */
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { startScriptedModel } from "../scripted-model.ts"
import { type ModelScript, playScript } from "./script.ts"

const [scriptFile = "", directory = ""] = process.argv.slice(2)
const script = JSON.parse(readFileSync(scriptFile, "utf8")) as ModelScript
mkdirSync(directory, { recursive: true })
const { port } = await startScriptedModel(playScript(script), {
  port: Number(process.env.PORT ?? 0),
  onTurn: (turn) => appendFileSync(join(directory, "asked.jsonl"), `${JSON.stringify(turn)}\n`),
})
writeFileSync(join(directory, "port"), `${port}\n`)
