import { request } from "node:http"
import { buffer } from "node:stream/consumers"
import { onTestFinished } from "vitest"
import { AUTHORIZED, serve } from "../../bridge/testing/supervisor.ts"
import { Dispatch } from "../../features/dispatch.ts"
import { systemClock } from "../../processes/clock.ts"
import { Pipes } from "../../processes/output/pipes.ts"
import { ProcessSet } from "../../processes/set.ts"
import { gitFeature } from "../feature.ts"
import { type TestRepo, USER } from "./repo.ts"

/** Serves git in the repo's workspace, as a supervisor does. */
export const serveGit = async (
  { workspace, environment }: TestRepo,
  more: Readonly<Record<string, string>> = {},
) => {
  const clock = systemClock
  const pipes = new Pipes("/tmp")
  const parts = {
    clock,
    pipes,
    processes: new ProcessSet({ clock, pipes }),
    user: USER,
    environment: { ...environment, ...more },
    places: { workspace, home: workspace, toolbox: "/", logs: workspace },
  }
  const features = new Dispatch({ git: async () => gitFeature(parts) })
  onTestFinished(async () => {
    await features.close()
    pipes.close()
  })
  const { path } = await serve({ features })
  const call = (method: string, url: string, body?: unknown) =>
    new Promise<{ status: number; bytes: Buffer }>((resolve, reject) => {
      const sent = request({ socketPath: path, path: url, method, headers: AUTHORIZED })
      sent.on("error", reject)
      sent.on("response", (response) => {
        const { statusCode: status = 0 } = response
        buffer(response).then((bytes) => resolve({ status, bytes }), reject)
      })
      sent.end(body === undefined ? undefined : JSON.stringify(body))
    })
  const get = (url: string) => call("GET", `/git/${url}`)
  const json = async (url: string): Promise<unknown> => JSON.parse(String((await get(url)).bytes))
  const post = async (body: unknown) => {
    const { status, bytes } = await call("POST", "/git/commit", body)
    return { status, body: JSON.parse(String(bytes)) }
  }
  return { path, features, get, json, post }
}
