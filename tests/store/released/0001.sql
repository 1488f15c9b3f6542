BEGIN TRANSACTION;
CREATE TABLE application_versions (
	id INTEGER NOT NULL, 
	application_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	document JSON NOT NULL, 
	created DOUBLE NOT NULL, 
	CONSTRAINT pk_application_versions PRIMARY KEY (id), 
	CONSTRAINT fk_application_versions_application_id FOREIGN KEY(application_id) REFERENCES applications (id) ON DELETE CASCADE, 
	CONSTRAINT uq_application_versions_application_id_number UNIQUE (application_id, number)
);
INSERT INTO "application_versions" VALUES(1,1,1,'{}',1.0);
INSERT INTO "application_versions" VALUES(2,1,2,'{"name": "clicks", "operator": [{"name": "parse", "service_rate": 500, "scv": 0.5}]}',2.0);
CREATE TABLE applications (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	created DOUBLE NOT NULL, 
	CONSTRAINT pk_applications PRIMARY KEY (id), 
	CONSTRAINT uq_applications_name UNIQUE (name)
);
INSERT INTO "applications" VALUES(1,'clicks',1.0);
CREATE TABLE samples (
	application TEXT NOT NULL, 
	operator TEXT NOT NULL, 
	start DOUBLE NOT NULL, 
	"end" DOUBLE NOT NULL, 
	node_type TEXT NOT NULL, 
	evidence TEXT NOT NULL, 
	arrived DOUBLE, 
	tuples_in DOUBLE, 
	tuples_out DOUBLE, 
	backlog DOUBLE, 
	service_n DOUBLE, 
	service_sum DOUBLE, 
	service_squares DOUBLE, 
	task_n DOUBLE, 
	task_records DOUBLE, 
	task_time DOUBLE, 
	task_inverse DOUBLE, 
	task_rates DOUBLE, 
	task_squares DOUBLE, 
	busy DOUBLE, 
	replicas DOUBLE, 
	batches DOUBLE, 
	batch_time DOUBLE, 
	batch_interval DOUBLE, 
	response_n DOUBLE, 
	response_sum DOUBLE, 
	completeness DOUBLE NOT NULL, 
	CONSTRAINT pk_samples PRIMARY KEY (application, operator, start, "end", node_type)
)
 WITHOUT ROWID

;
INSERT INTO "samples" VALUES('clicks','parse',0.0,60.0,'','records',0.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1.0);
INSERT INTO "samples" VALUES('clicks','parse',0.0,60.0,'large','tasks',NULL,NULL,NULL,0.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1.0);
INSERT INTO "samples" VALUES('clicks','parse',60.0,120.0,'','records',1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1.0);
INSERT INTO "samples" VALUES('clicks','parse',120.0,180.0,'','records',2.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1.0);
CREATE TABLE source_marks (
	application TEXT NOT NULL, 
	source TEXT NOT NULL, 
	position BIGINT NOT NULL, 
	read_at DOUBLE NOT NULL, 
	detail JSON NOT NULL, 
	CONSTRAINT pk_source_marks PRIMARY KEY (application, source)
);
INSERT INTO "source_marks" VALUES('clicks','/logs/a',1099511627776,3.0,'{"batch": 7}');
CREATE TABLE surrogates (
	id INTEGER NOT NULL, 
	application TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	document JSON NOT NULL, 
	start DOUBLE NOT NULL, 
	"end" DOUBLE NOT NULL, 
	windows INTEGER NOT NULL, 
	health TEXT NOT NULL, 
	error DOUBLE, 
	created DOUBLE NOT NULL, 
	CONSTRAINT pk_surrogates PRIMARY KEY (id), 
	CONSTRAINT uq_surrogates_application_number UNIQUE (application, number)
);
INSERT INTO "surrogates" VALUES(1,'clicks',1,'{"mean": {"parse": 0.002}}',0.0,180.0,3,'warn',0.125,4.0);
CREATE TABLE tuner_schema (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT tuner_schema_pkc PRIMARY KEY (version_num)
);
INSERT INTO "tuner_schema" VALUES('0001');
CREATE INDEX ix_samples_end ON samples ("end");
COMMIT;
