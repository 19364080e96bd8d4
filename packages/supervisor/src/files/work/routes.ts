import type { HttpRoute } from "../../features/feature.ts"
import { getArchive, putArchive } from "./archive.ts"
import { makeDirectory, moveFile, removeFile } from "./change.ts"
import { listFiles, statFile } from "./list.ts"
import { type Maker, Parts } from "./parts.ts"
import { readContent } from "./read.ts"
import { searchFiles } from "./search.ts"
import { tellFailure } from "./tell-failure.ts"
import { watchFiles } from "./watch.ts"
import { writeContent, writeFiles } from "./write.ts"

export interface FileParts {
  readonly workspace: string
  /** Path of ripgrep. */
  readonly search: string
  readonly maker: Maker
}

/** The route that the supervisor serves to its clients as a WebSocket. */
export const watchRoute = ({ workspace }: FileParts): HttpRoute =>
  tellFailure({ method: "GET", path: "/files/watch", handle: watchFiles(workspace) })

export const fileRoutes = ({ workspace, search, maker }: FileParts): HttpRoute[] => {
  const places = { workspace, parts: new Parts(maker) }
  const routes: HttpRoute[] = [
    { method: "GET", path: "/files/content", handle: readContent(workspace) },
    { method: "PUT", path: "/files/content", handle: writeContent(places) },
    { method: "POST", path: "/files/write", handle: writeFiles(places) },
    { method: "GET", path: "/files/list", handle: listFiles(workspace) },
    { method: "GET", path: "/files/stat", handle: statFile(workspace) },
    { method: "POST", path: "/files/mkdir", handle: makeDirectory(workspace) },
    { method: "POST", path: "/files/move", handle: moveFile(places) },
    { method: "DELETE", path: "/files", handle: removeFile(workspace) },
    { method: "GET", path: "/files/search", handle: searchFiles(workspace, search) },
    { method: "GET", path: "/files/archive", handle: getArchive(workspace) },
    { method: "PUT", path: "/files/archive", handle: putArchive(places) },
  ]
  return routes.map(tellFailure)
}
